// Filters, links into folded breaks, and printing. Without this script the page shows everything.
"use strict";
(() => {
  const bar = document.getElementById("filters");
  const breaks = [...document.querySelectorAll("details.break")].map((node) => ({
    node,
    text: node.textContent.toLowerCase(),
  }));
  const selects = [...document.querySelectorAll("#filters select")];
  const search = document.getElementById("search");
  const said = document.getElementById("shown");

  function apply() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { node, text } of breaks) {
      const fits =
        selects.every((select) => select.value === "*" || node.dataset[select.name] === select.value) &&
        words.every((word) => text.includes(word));
      node.hidden = !fits;
      shown += fits;
    }
    for (const group of document.querySelectorAll(".group")) {
      group.hidden = !group.querySelector("details.break:not([hidden])");
    }
    said.textContent = `${shown.toLocaleString("en")} of ${breaks.length.toLocaleString("en")} breaks shown, accepted and resolved among them`;
  }

  function clear() {
    search.value = "";
    for (const select of selects) select.value = "*";
    apply();
  }

  function fold(open) {
    for (const { node } of breaks) if (!node.hidden) node.open = open;
  }

  function follow() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.matches("details.break")) return;
    if (target.hidden) clear();
    target.open = true;
    target.scrollIntoView({ block: "start" });
  }

  if (bar) {
    bar.hidden = false;
    for (const select of selects) select.addEventListener("change", apply);
    search.addEventListener("input", apply);
    document.getElementById("clear").addEventListener("click", clear);
    document.getElementById("unfold").addEventListener("click", () => fold(true));
    document.getElementById("fold").addEventListener("click", () => fold(false));
    for (const link of document.querySelectorAll("a[data-only]")) {
      link.addEventListener("click", () => {
        clear();
        document.getElementById("filter-class").value = link.dataset.only;
        apply();
      });
    }
    apply();
    window.addEventListener("hashchange", follow);
    follow();
  }

  // Paper cannot be unfolded: what is shown is printed whole, and folded again afterwards.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details.break:not([open])")];
    for (const node of folded) node.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const node of folded) node.open = false;
  });
})();
