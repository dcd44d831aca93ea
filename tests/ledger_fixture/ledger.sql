CREATE TABLE public.acceptances (
    id bigint NOT NULL,
    break_id character varying(20) NOT NULL,
    name character varying(40) NOT NULL,
    difference character varying(64) NOT NULL,
    accepted_by character varying(100) NOT NULL,
    os_user character varying(100) NOT NULL,
    why text NOT NULL,
    accepted_at bigint NOT NULL
);
CREATE SEQUENCE public.acceptances_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.acceptances_id_seq OWNED BY public.acceptances.id;
CREATE TABLE public.answers (
    id bigint NOT NULL,
    sweep_id bigint NOT NULL,
    request_id character varying(64) NOT NULL,
    order_id bigint,
    ledger_side text NOT NULL,
    service_side text,
    asked_at bigint
);
CREATE SEQUENCE public.answers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.answers_id_seq OWNED BY public.answers.id;
CREATE TABLE public.approvals (
    id bigint NOT NULL,
    run_key character varying(200) NOT NULL,
    plan_sha256 character varying(64) NOT NULL,
    approved_by character varying(100) NOT NULL,
    os_user character varying(100) NOT NULL,
    approved_at bigint NOT NULL
);
CREATE SEQUENCE public.approvals_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.approvals_id_seq OWNED BY public.approvals.id;
CREATE TABLE public.balances (
    id bigint NOT NULL,
    currency character varying(40) NOT NULL,
    available character varying(64) NOT NULL,
    seen_at bigint NOT NULL
);
CREATE SEQUENCE public.balances_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.balances_id_seq OWNED BY public.balances.id;
CREATE TABLE public.breaks (
    sweep_id bigint NOT NULL,
    break_id character varying(20) NOT NULL,
    subject character varying(300) NOT NULL,
    name character varying(40) NOT NULL,
    request_id character varying(300),
    currency character varying(40),
    amount character varying(64),
    difference character varying(64) NOT NULL,
    evidence text NOT NULL,
    run_key character varying(200),
    row_ref character varying(200),
    operation character varying(60),
    order_no character varying(200),
    first_seen bigint NOT NULL,
    lifecycle character varying(20) NOT NULL
);
CREATE TABLE public.card_users (
    user_xid character varying(200) NOT NULL,
    user_id character varying(200),
    kyc_status character varying(20),
    kyc_level character varying(20),
    seen_at bigint NOT NULL
);
CREATE TABLE public.journal (
    id bigint NOT NULL,
    order_id bigint NOT NULL,
    at bigint NOT NULL,
    event character varying(20) NOT NULL,
    source character varying(10) NOT NULL,
    target character varying(10) NOT NULL,
    process character varying(100) NOT NULL,
    cause text,
    code character varying(40),
    status integer
);
CREATE SEQUENCE public.journal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.journal_id_seq OWNED BY public.journal.id;
CREATE TABLE public.meta (
    key character varying(40) NOT NULL,
    value text NOT NULL
);
CREATE TABLE public.orders (
    id bigint NOT NULL,
    run_key character varying(200) NOT NULL,
    row_ref character varying(200) NOT NULL,
    operation character varying(60) NOT NULL,
    generation integer NOT NULL,
    request_id character varying(64) NOT NULL,
    state character varying(10) NOT NULL,
    doubtful boolean NOT NULL,
    sends integer NOT NULL,
    meaning character varying(64) NOT NULL,
    payload bytea,
    masked text NOT NULL,
    alike character varying(64),
    ask_first boolean NOT NULL,
    currency character varying(40),
    amount character varying(64),
    receive_currency character varying(40),
    receive_amount character varying(64),
    fee character varying(64),
    fee_currency character varying(40),
    rate character varying(64),
    order_no character varying(200),
    confirmation character varying(200),
    status integer,
    code character varying(40),
    reason text,
    created_at bigint NOT NULL,
    sent_at bigint,
    final_at bigint,
    asked_at bigint,
    absent_since bigint
);
CREATE SEQUENCE public.orders_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.orders_id_seq OWNED BY public.orders.id;
CREATE TABLE public.plans (
    id bigint NOT NULL,
    run_key character varying(200) NOT NULL,
    plan_sha256 character varying(64) NOT NULL,
    maker character varying(100) NOT NULL,
    needed integer NOT NULL,
    proposed_at bigint NOT NULL
);
CREATE SEQUENCE public.plans_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.plans_id_seq OWNED BY public.plans.id;
CREATE TABLE public.quotes (
    id bigint NOT NULL,
    order_id bigint NOT NULL,
    generation integer NOT NULL,
    request_id character varying(64) NOT NULL,
    quote character varying(200),
    pay_currency character varying(40),
    pay_amount character varying(64),
    receive_currency character varying(40),
    receive_amount character varying(64),
    fee character varying(64),
    fee_currency character varying(40),
    rate character varying(64),
    expires_at bigint,
    note text,
    created_at bigint NOT NULL
);
CREATE SEQUENCE public.quotes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.quotes_id_seq OWNED BY public.quotes.id;
CREATE TABLE public.reports (
    sweep_id bigint NOT NULL,
    books character varying(200) NOT NULL,
    as_of bigint NOT NULL,
    journal_id bigint NOT NULL,
    statement text NOT NULL
);
CREATE TABLE public.runs (
    run_key character varying(200) NOT NULL,
    kind character varying(40) NOT NULL,
    created_at bigint NOT NULL,
    plan text NOT NULL,
    plan_sha256 character varying(64) NOT NULL
);
CREATE TABLE public.stops (
    id bigint NOT NULL,
    stopped_at bigint NOT NULL,
    stopped_by character varying(100) NOT NULL,
    why text NOT NULL,
    lifted_at bigint,
    lifted_by character varying(100)
);
CREATE SEQUENCE public.stops_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.stops_id_seq OWNED BY public.stops.id;
CREATE TABLE public.sweep_balances (
    sweep_id bigint NOT NULL,
    currency character varying(40) NOT NULL,
    before character varying(64),
    after character varying(64),
    note text,
    refused boolean NOT NULL
);
CREATE TABLE public.sweeps (
    id bigint NOT NULL,
    started_at bigint NOT NULL,
    scope text NOT NULL
);
CREATE SEQUENCE public.sweeps_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.sweeps_id_seq OWNED BY public.sweeps.id;
ALTER TABLE ONLY public.acceptances ALTER COLUMN id SET DEFAULT nextval('public.acceptances_id_seq'::regclass);
ALTER TABLE ONLY public.answers ALTER COLUMN id SET DEFAULT nextval('public.answers_id_seq'::regclass);
ALTER TABLE ONLY public.approvals ALTER COLUMN id SET DEFAULT nextval('public.approvals_id_seq'::regclass);
ALTER TABLE ONLY public.balances ALTER COLUMN id SET DEFAULT nextval('public.balances_id_seq'::regclass);
ALTER TABLE ONLY public.journal ALTER COLUMN id SET DEFAULT nextval('public.journal_id_seq'::regclass);
ALTER TABLE ONLY public.orders ALTER COLUMN id SET DEFAULT nextval('public.orders_id_seq'::regclass);
ALTER TABLE ONLY public.plans ALTER COLUMN id SET DEFAULT nextval('public.plans_id_seq'::regclass);
ALTER TABLE ONLY public.quotes ALTER COLUMN id SET DEFAULT nextval('public.quotes_id_seq'::regclass);
ALTER TABLE ONLY public.stops ALTER COLUMN id SET DEFAULT nextval('public.stops_id_seq'::regclass);
ALTER TABLE ONLY public.sweeps ALTER COLUMN id SET DEFAULT nextval('public.sweeps_id_seq'::regclass);
INSERT INTO public.acceptances VALUES (1, 'B-4564b46580a4', 'amount_mismatch', '-3.00', 'Ada Example', 'ada', 'agreed', 1795304327996);
INSERT INTO public.answers VALUES (1, 1, 'tf-ip6ob5uxj4rmk42dag3rsiopgu', 16, '{"request_id": "tf-ip6ob5uxj4rmk42dag3rsiopgu", "run_key": "october", "row_ref": "other", "operation": "payout", "state": "settled", "currency": "USDT", "amount": "10.00", "known_order_no": "P1", "created_at": 1795304327728, "sent_at": 1795304327750, "final_at": 1795304327758}', '{"answer": "found", "status": 99, "order_no": "P1", "seen_currency": "USDT", "seen_amount": "7.00", "raw": {"order_no": "P1", "request_id": "tf-ip6ob5uxj4rmk42dag3rsiopgu", "currency": "USDT", "order_amount": "7.00", "status": 99, "metadata": {}}}', 1795304327791);
INSERT INTO public.answers VALUES (4, 2, 'tf-fvvsempnev27t2ivmufyz3b67q', 3, '{"request_id": "tf-fvvsempnev27t2ivmufyz3b67q", "run_key": "november", "row_ref": "closed", "operation": "payout", "state": "closed", "currency": "USDT", "amount": "10.00", "known_order_no": "P1", "created_at": 1795304327715, "sent_at": 1795304328018, "final_at": 1795304328022}', NULL, NULL);
INSERT INTO public.answers VALUES (5, 2, 'tf-zfetiudmlt3imq74momq7iadrm', 4, '{"request_id": "tf-zfetiudmlt3imq74momq7iadrm", "run_key": "november", "row_ref": "accepted", "operation": "payout", "state": "accepted", "currency": "USDT", "amount": "10.00", "known_order_no": "P1", "created_at": 1795304327715, "sent_at": 1795304328023}', NULL, NULL);
INSERT INTO public.answers VALUES (6, 2, 'tf-aj5sronotdcigtgj455vwkkoo4', 5, '{"request_id": "tf-aj5sronotdcigtgj455vwkkoo4", "run_key": "november", "row_ref": "unknown", "operation": "payout", "state": "unknown", "currency": "USDT", "amount": "10.00", "created_at": 1795304327715, "sent_at": 1795304328027}', NULL, NULL);
INSERT INTO public.answers VALUES (7, 2, 'tf-ie6pcejabi2k6tfrfcanwv4jvy', 6, '{"request_id": "tf-ie6pcejabi2k6tfrfcanwv4jvy", "run_key": "november", "row_ref": "rejected", "operation": "payout", "state": "rejected", "currency": "USDT", "amount": "10.00", "created_at": 1795304327715, "sent_at": 1795304328031, "final_at": 1795304328034}', NULL, NULL);
INSERT INTO public.answers VALUES (8, 2, 'tf-2km7xh6oisrceqhcurrsi375yy', 7, '{"request_id": "tf-2km7xh6oisrceqhcurrsi375yy", "run_key": "november", "row_ref": "known", "operation": "payout", "state": "held", "currency": "USDT", "amount": "10.00", "created_at": 1795304327715}', NULL, NULL);
INSERT INTO public.answers VALUES (9, 2, 'tf-zla3i37bxtqhmv7whpsp4qcoli', 8, '{"request_id": "tf-zla3i37bxtqhmv7whpsp4qcoli", "run_key": "november", "row_ref": "asked-first", "operation": "payout", "state": "prepared", "currency": "USDT", "amount": "10.00", "created_at": 1795304327715}', NULL, NULL);
INSERT INTO public.answers VALUES (10, 2, 'tf-kxnfxz6q3z6iih53znc35lvn6y', 9, '{"request_id": "tf-kxnfxz6q3z6iih53znc35lvn6y", "run_key": "november", "row_ref": "sending", "operation": "payout", "state": "prepared", "currency": "USDT", "amount": "10.00", "created_at": 1795304327715}', NULL, NULL);
INSERT INTO public.answers VALUES (11, 2, 'tf-qmhqolorpejmjdfl2jhmbcq4ze', 10, '{"request_id": "tf-qmhqolorpejmjdfl2jhmbcq4ze", "run_key": "november", "row_ref": "prepared", "operation": "payout", "state": "prepared", "currency": "USDT", "amount": "10.00", "created_at": 1795304327715}', NULL, NULL);
INSERT INTO public.answers VALUES (12, 2, 'tf-vjajf73su4qtd4gtcf7yidwufq', 11, '{"request_id": "tf-vjajf73su4qtd4gtcf7yidwufq", "run_key": "november", "row_ref": "waiting", "operation": "payout", "state": "prepared", "currency": "USDT", "amount": "10.00", "created_at": 1795304327715}', NULL, NULL);
INSERT INTO public.answers VALUES (13, 2, 'tf-37h4kdtanwjui7jkgqrp3orige', 12, '{"request_id": "tf-37h4kdtanwjui7jkgqrp3orige", "run_key": "november", "row_ref": "duplicate", "operation": "payout", "state": "held", "currency": "USDT", "amount": "10.00", "created_at": 1795304327715}', NULL, NULL);
INSERT INTO public.answers VALUES (14, 2, 'tf-6aq6nuvsattd43ihl3k4iqwfaq', 13, '{"request_id": "tf-6aq6nuvsattd43ihl3k4iqwfaq", "run_key": "november", "row_ref": "quote-lost", "operation": "create_fiat_payout", "state": "prepared", "currency": "USDT", "amount": "100.00", "receive_currency": "EUR", "created_at": 1795304327715}', NULL, NULL);
INSERT INTO public.answers VALUES (15, 2, 'tf-cwa7sw6jhpbbnqausugoi2elrm', 14, '{"request_id": "tf-cwa7sw6jhpbbnqausugoi2elrm", "run_key": "november", "row_ref": "quote-answered", "operation": "create_fiat_payout", "state": "prepared", "currency": "USDT", "amount": "100.00", "receive_currency": "EUR", "rate": "0.95", "created_at": 1795304327715}', NULL, NULL);
INSERT INTO public.answers VALUES (16, 2, 'tf-nvoxn667myh5u6mnn4tcyczyhq', 15, '{"request_id": "tf-nvoxn667myh5u6mnn4tcyczyhq", "run_key": "november", "row_ref": "quote-confirmed", "operation": "create_fiat_payout", "state": "accepted", "currency": "USDT", "amount": "100.00", "receive_currency": "EUR", "receive_amount": "95.00", "rate": "0.95", "known_order_no": "C1", "created_at": 1795304327715, "sent_at": 1795304328054}', NULL, NULL);
INSERT INTO public.answers VALUES (17, 2, 'tf-ip6ob5uxj4rmk42dag3rsiopgu', 16, '{"request_id": "tf-ip6ob5uxj4rmk42dag3rsiopgu", "run_key": "october", "row_ref": "other", "operation": "payout", "state": "settled", "currency": "USDT", "amount": "10.00", "known_order_no": "P1", "created_at": 1795304327728, "sent_at": 1795304327750, "final_at": 1795304327758}', NULL, NULL);
INSERT INTO public.answers VALUES (18, 2, 'tf-7dis2l7eehay7wq5ete5qp325i', NULL, '{"request_id": "tf-7dis2l7eehay7wq5ete5qp325i", "run_key": "november", "row_ref": "quote-lost", "operation": "create_fiat_payout", "state": "superseded", "rate": "0.5", "known_order_no": "Q1", "created_at": 1795304328041}', NULL, NULL);
INSERT INTO public.answers VALUES (19, 2, 'card user card-1', NULL, '{"request_id": "card user card-1", "operation": "query_card_user", "user_xid": "card-1", "kyc_status": "PASS"}', NULL, NULL);
INSERT INTO public.answers VALUES (2, 2, 'tf-akaocxyggiqdyjoor6h6rcauxa', 1, '{"request_id": "tf-akaocxyggiqdyjoor6h6rcauxa", "run_key": "november", "row_ref": "settled", "operation": "payout", "state": "settled", "currency": "USDT", "amount": "10.00", "known_order_no": "P1", "created_at": 1795304327714, "sent_at": 1795304328007, "final_at": 1795304328035}', '{"answer": "failed", "seen_reason": "query_transaction: the service answered HTTP 500: HTTP 500 without a readable body"}', 1795304331541);
INSERT INTO public.answers VALUES (3, 2, 'tf-llqm5evogykqqmdqpph2bdx6ey', 2, '{"request_id": "tf-llqm5evogykqqmdqpph2bdx6ey", "run_key": "november", "row_ref": "failed", "operation": "payout", "state": "failed", "currency": "USDT", "amount": "10.00", "known_order_no": "P1", "created_at": 1795304327714, "sent_at": 1795304328012, "final_at": 1795304328017}', '{"answer": "failed", "seen_reason": "query_transaction: the service answered HTTP 500: HTTP 500 without a readable body"}', 1795304331541);
INSERT INTO public.approvals VALUES (1, 'december', 'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd', 'Ada Example', 'ada', 1795304328064);
INSERT INTO public.balances VALUES (1, 'USDT', '1000.50', 1795304328069);
INSERT INTO public.breaks VALUES (1, 'B-4564b46580a4', 'tf-ip6ob5uxj4rmk42dag3rsiopgu', 'amount_mismatch', 'tf-ip6ob5uxj4rmk42dag3rsiopgu', 'USDT', '10.00', '-3.00', 'ledger: settled 10.00 USDT; service: 99 success 7.00 USDT', 'october', 'other', 'payout', 'P1', 1795304327804, 'new');
INSERT INTO public.card_users VALUES ('card-1', 'u-1', 'PASS', '1', 1795304328071);
INSERT INTO public.journal VALUES (1, 12, 1795304327725, 'hold', 'prepared', 'held', 'machine:1', 'same payee, amount and currency as prepared of run november (tf-qmhqolorpejmjdfl2jhmbcq4ze); if it is meant, write why into duplicate_ok', NULL, NULL);
INSERT INTO public.journal VALUES (2, 16, 1795304327751, 'send', 'prepared', 'sending', 'machine:1', NULL, NULL, NULL);
INSERT INTO public.journal VALUES (3, 16, 1795304327756, 'accept', 'sending', 'accepted', 'machine:1', 'the answer to the request', NULL, 11);
INSERT INTO public.journal VALUES (4, 16, 1795304327758, 'settle', 'accepted', 'settled', 'machine:1', 'a query', NULL, 99);
INSERT INTO public.journal VALUES (5, 1, 1795304328008, 'send', 'prepared', 'sending', 'machine:1', NULL, NULL, NULL);
INSERT INTO public.journal VALUES (6, 1, 1795304328011, 'accept', 'sending', 'accepted', 'machine:1', 'the answer to the request', NULL, 11);
INSERT INTO public.journal VALUES (7, 2, 1795304328013, 'send', 'prepared', 'sending', 'machine:1', NULL, NULL, NULL);
INSERT INTO public.journal VALUES (8, 2, 1795304328016, 'accept', 'sending', 'accepted', 'machine:1', 'the answer to the request', NULL, 11);
INSERT INTO public.journal VALUES (9, 2, 1795304328017, 'fail', 'accepted', 'failed', 'machine:1', 'a query', NULL, 44);
INSERT INTO public.journal VALUES (10, 3, 1795304328019, 'send', 'prepared', 'sending', 'machine:1', NULL, NULL, NULL);
INSERT INTO public.journal VALUES (11, 3, 1795304328021, 'accept', 'sending', 'accepted', 'machine:1', 'the answer to the request', NULL, 11);
INSERT INTO public.journal VALUES (12, 3, 1795304328022, 'close', 'accepted', 'closed', 'machine:1', 'a query', NULL, 88);
INSERT INTO public.journal VALUES (13, 4, 1795304328024, 'send', 'prepared', 'sending', 'machine:1', NULL, NULL, NULL);
INSERT INTO public.journal VALUES (14, 4, 1795304328026, 'accept', 'sending', 'accepted', 'machine:1', 'the answer to the request', NULL, 11);
INSERT INTO public.journal VALUES (15, 5, 1795304328027, 'send', 'prepared', 'sending', 'machine:1', NULL, NULL, NULL);
INSERT INTO public.journal VALUES (16, 5, 1795304328030, 'lose', 'sending', 'unknown', 'machine:1', 'ConnectError after the request left', NULL, NULL);
INSERT INTO public.journal VALUES (17, 6, 1795304328031, 'send', 'prepared', 'sending', 'machine:1', NULL, NULL, NULL);
INSERT INTO public.journal VALUES (18, 6, 1795304328034, 'reject', 'sending', 'rejected', 'machine:1', NULL, '400', NULL);
INSERT INTO public.journal VALUES (19, 1, 1795304328035, 'settle', 'accepted', 'settled', 'machine:1', 'a query', NULL, 99);
INSERT INTO public.journal VALUES (20, 7, 1795304328036, 'hold', 'prepared', 'held', 'machine:1', 'asked first', NULL, NULL);
INSERT INTO public.journal VALUES (21, 15, 1795304328054, 'send', 'prepared', 'sending', 'machine:1', NULL, NULL, NULL);
INSERT INTO public.journal VALUES (22, 15, 1795304328057, 'accept', 'sending', 'accepted', 'machine:1', 'the answer to the request', NULL, NULL);
INSERT INTO public.journal VALUES (23, 9, 1795304331544, 'send', 'prepared', 'sending', 'machine:1', NULL, NULL, NULL);
INSERT INTO public.meta VALUES ('schema', '1');
INSERT INTO public.meta VALUES ('key', 'e0aefdf21fe8eaa9a5999144942658dd288400c450fd79938357249af3529648');
INSERT INTO public.meta VALUES ('epoch', 'a33e9e7b43144df4be0ec6b5ca184521');
INSERT INTO public.meta VALUES ('file', '');
INSERT INTO public.meta VALUES ('account', 'http://ledger.example|900001');
INSERT INTO public.orders VALUES (2, 'november', 'failed', 'payout', 1, 'tf-llqm5evogykqqmdqpph2bdx6ey', 'failed', false, 1, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', NULL, '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', 'a0e14857b398bdef3547f88857b58ae995fd4b6b8cf00033bfccb66c79a13115', false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, 'P1', NULL, 44, NULL, NULL, 1795304327714, 1795304328012, 1795304328017, 1795304328016, NULL);
INSERT INTO public.orders VALUES (3, 'november', 'closed', 'payout', 1, 'tf-fvvsempnev27t2ivmufyz3b67q', 'closed', false, 1, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', NULL, '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', '516ed3cb78e67e407d1c944641695de1e97287c1de6368d3d60a13aec0876644', false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, 'P1', NULL, 88, NULL, NULL, 1795304327715, 1795304328018, 1795304328022, 1795304328021, NULL);
INSERT INTO public.orders VALUES (6, 'november', 'rejected', 'payout', 1, 'tf-ie6pcejabi2k6tfrfcanwv4jvy', 'rejected', false, 1, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', NULL, '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', 'b8cd407584ee0ace8ab34828d0567544e9e42024a65bd9fcc0020ea263dc3a89', false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '400', 'no', 1795304327715, 1795304328031, 1795304328034, NULL, NULL);
INSERT INTO public.orders VALUES (4, 'november', 'accepted', 'payout', 1, 'tf-zfetiudmlt3imq74momq7iadrm', 'accepted', false, 1, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', '\x6f70656e2e6a736f6e', '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', '3f271552566cb92136248d5b024b7fcba6a900413d100e02987aaa099f3bd2be', false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, 'P1', NULL, 11, NULL, NULL, 1795304327715, 1795304328023, NULL, 1795304328026, NULL);
INSERT INTO public.orders VALUES (5, 'november', 'unknown', 'payout', 1, 'tf-aj5sronotdcigtgj455vwkkoo4', 'unknown', true, 1, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', '\x6f70656e2e6a736f6e', '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', '1560abe7fc793c4275cca02758b66a35f1ff90bdc77758d64c3d7c90fa3d8f6b', false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'ConnectError after the request left', 1795304327715, 1795304328027, NULL, NULL, NULL);
INSERT INTO public.orders VALUES (7, 'november', 'known', 'payout', 1, 'tf-2km7xh6oisrceqhcurrsi375yy', 'held', false, 0, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', '\x6f70656e2e6a736f6e', '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', 'b96dd3ccce7a687f7c0b2cedc98605e2beb223df44415db2848875f0652b5321', false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'the service knows it already', 1795304327715, NULL, NULL, NULL, NULL);
INSERT INTO public.orders VALUES (8, 'november', 'asked-first', 'payout', 1, 'tf-zla3i37bxtqhmv7whpsp4qcoli', 'prepared', false, 0, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', '\x6f70656e2e6a736f6e', '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', 'bae94b05f222eee24bf5ee49eb922ef401eb3b83f9a304193fb94c8d35255e93', true, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795304327715, NULL, NULL, NULL, NULL);
INSERT INTO public.orders VALUES (10, 'november', 'prepared', 'payout', 1, 'tf-qmhqolorpejmjdfl2jhmbcq4ze', 'prepared', false, 0, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', '\x6f70656e2e6a736f6e', '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', '6587b28758c2c34ebca089a6325b33d70cc74e578a2937307fc29b8eefd45557', false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795304327715, NULL, NULL, NULL, NULL);
INSERT INTO public.orders VALUES (11, 'november', 'waiting', 'payout', 1, 'tf-vjajf73su4qtd4gtcf7yidwufq', 'prepared', false, 0, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', '\x6f70656e2e6a736f6e', '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', 'eb2988dba6c4b22e9f1c13302af5963a739fba0f04274fe14edcb1b2da0c302b', false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795304327715, NULL, NULL, NULL, NULL);
INSERT INTO public.orders VALUES (14, 'november', 'quote-answered', 'create_fiat_payout', 1, 'tf-cwa7sw6jhpbbnqausugoi2elrm', 'prepared', false, 0, 'b8f0ce89c50eccf826c271a5d2fe962e6bf69def4a70fdb6176dfcddc05ccadc', '\x6f70656e2e6a736f6e', '{"quote_mode": "source", "pay_currency": "USDT", "pay_amount": "100.00", "receive_currency": "EUR", "beneficiary_country": "DE", "beneficiary_bank_id": "2000800", "account_type": "PERSONAL", "beneficiary_relationship": "third", "clear_network": "SWIFT", "individual_beneficiary": {"account_no": "***2051", "bank_name": "Bank", "address": "***"}, "purpose_code": "30"}', NULL, false, 'USDT', '100.00', 'EUR', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795304327715, NULL, NULL, NULL, NULL);
INSERT INTO public.orders VALUES (9, 'november', 'sending', 'payout', 1, 'tf-kxnfxz6q3z6iih53znc35lvn6y', 'sending', false, 1, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', '\x6f70656e2e6a736f6e', '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', '59f56d4cc49e85dfdec4254f1ef50f0900b8972ef748e87d71a709243a985356', false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795304327715, 1795304331544, NULL, NULL, NULL);
INSERT INTO public.orders VALUES (16, 'october', 'other', 'payout', 1, 'tf-ip6ob5uxj4rmk42dag3rsiopgu', 'settled', false, 1, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', NULL, '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', NULL, false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, 'P1', NULL, 99, NULL, 'amount is 7.00 at the service, 10.00 here', 1795304327728, 1795304327750, 1795304327758, 1795304327791, NULL);
INSERT INTO public.orders VALUES (1, 'november', 'settled', 'payout', 1, 'tf-akaocxyggiqdyjoor6h6rcauxa', 'settled', false, 1, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', NULL, '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', '51435ea26b72210f3cb3cf380224f234868a446913b58b3e3ef5026ea72423c9', false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, 'P1', NULL, 99, NULL, NULL, 1795304327714, 1795304328007, 1795304328035, 1795304328011, NULL);
INSERT INTO public.orders VALUES (12, 'november', 'duplicate', 'payout', 1, 'tf-37h4kdtanwjui7jkgqrp3orige', 'held', false, 0, 'f1a02ff6e312a0105dcd5ea6938ad5f6ffdf5c052b7aa36e5ffcb55484391439', '\x6f70656e2e6a736f6e', '{"payout_method": "bank_transfer", "account_no": "***9012", "account_name": "***", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00", "currency": "USDT", "phone": "***0000", "email": "***"}', '6587b28758c2c34ebca089a6325b33d70cc74e578a2937307fc29b8eefd45557', false, 'USDT', '10.00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'same payee, amount and currency as prepared of run november (tf-qmhqolorpejmjdfl2jhmbcq4ze); if it is meant, write why into duplicate_ok', 1795304327715, NULL, NULL, NULL, NULL);
INSERT INTO public.orders VALUES (13, 'november', 'quote-lost', 'create_fiat_payout', 2, 'tf-6aq6nuvsattd43ihl3k4iqwfaq', 'prepared', false, 0, 'b8f0ce89c50eccf826c271a5d2fe962e6bf69def4a70fdb6176dfcddc05ccadc', '\x6f70656e2e6a736f6e', '{"quote_mode": "source", "pay_currency": "USDT", "pay_amount": "100.00", "receive_currency": "EUR", "beneficiary_country": "DE", "beneficiary_bank_id": "2000800", "account_type": "PERSONAL", "beneficiary_relationship": "third", "clear_network": "SWIFT", "individual_beneficiary": {"account_no": "***2051", "bank_name": "Bank", "address": "***"}, "purpose_code": "30"}', NULL, false, 'USDT', '100.00', 'EUR', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795304327715, NULL, NULL, NULL, NULL);
INSERT INTO public.orders VALUES (15, 'november', 'quote-confirmed', 'create_fiat_payout', 1, 'tf-nvoxn667myh5u6mnn4tcyczyhq', 'accepted', false, 1, 'b8f0ce89c50eccf826c271a5d2fe962e6bf69def4a70fdb6176dfcddc05ccadc', '\x6f70656e2e6a736f6e', '{"quote_mode": "source", "pay_currency": "USDT", "pay_amount": "100.00", "receive_currency": "EUR", "beneficiary_country": "DE", "beneficiary_bank_id": "2000800", "account_type": "PERSONAL", "beneficiary_relationship": "third", "clear_network": "SWIFT", "individual_beneficiary": {"account_no": "***2051", "bank_name": "Bank", "address": "***"}, "purpose_code": "30"}', NULL, false, 'USDT', '100.00', 'EUR', '95.00', NULL, NULL, '0.95', 'C1', 'Q-tf-nvoxn667myh5u6mnn4tcyczyhq', NULL, NULL, NULL, 1795304327715, 1795304328054, NULL, 1795304328057, NULL);
INSERT INTO public.plans VALUES (1, 'december', 'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd', 'maker', 2, 1795304328061);
INSERT INTO public.quotes VALUES (1, 13, 1, 'tf-7dis2l7eehay7wq5ete5qp325i', 'Q1', NULL, NULL, NULL, NULL, NULL, NULL, '0.5', NULL, 'outside the bounds', 1795304328041);
INSERT INTO public.quotes VALUES (2, 13, 2, 'tf-6aq6nuvsattd43ihl3k4iqwfaq', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795304328044);
INSERT INTO public.quotes VALUES (3, 14, 1, 'tf-cwa7sw6jhpbbnqausugoi2elrm', 'Q2', 'USDT', '100.00', NULL, NULL, NULL, NULL, '0.95', NULL, NULL, 1795304328046);
INSERT INTO public.quotes VALUES (4, 15, 1, 'tf-nvoxn667myh5u6mnn4tcyczyhq', 'Q-tf-nvoxn667myh5u6mnn4tcyczyhq', 'USDT', '100.00', 'EUR', '95.00', NULL, NULL, '0.95', 1795304388050, NULL, 1795304328048);
INSERT INTO public.reports VALUES (1, '["october", null]', 1795304327804, 4, '{"lines": [{"currency": "USDT", "opening_in_flight": "0", "sent": "10", "arrived": "10", "fees": "0", "failed_and_returned": "0", "closing_in_flight": "0", "residual": "0"}], "received": {}, "receiving": {}, "fees_in_flight": {}}');
INSERT INTO public.runs VALUES ('november', 'payout', 1795304327713, '{"rows": 15}', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa');
INSERT INTO public.runs VALUES ('october', 'payout', 1795304327727, '{"rows": 1}', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb');
INSERT INTO public.stops VALUES (1, 1795304328066, 'Ada Example', 'a wrong list', 1795304328068, 'Ada Example');
INSERT INTO public.sweep_balances VALUES (2, 'USDT', NULL, NULL, 'partner_balance: the service answered code 7000: ORDER_NOT_EXIST', true);
INSERT INTO public.sweeps VALUES (1, 1795304327764, '{"run_key": "october", "currency": null, "window_days": null}');
INSERT INTO public.sweeps VALUES (2, 1795304328078, '{"run_key": null, "currency": null, "window_days": null}');
SELECT pg_catalog.setval('public.acceptances_id_seq', 1, true);
SELECT pg_catalog.setval('public.answers_id_seq', 19, true);
SELECT pg_catalog.setval('public.approvals_id_seq', 1, true);
SELECT pg_catalog.setval('public.balances_id_seq', 1, true);
SELECT pg_catalog.setval('public.journal_id_seq', 23, true);
SELECT pg_catalog.setval('public.orders_id_seq', 16, true);
SELECT pg_catalog.setval('public.plans_id_seq', 1, true);
SELECT pg_catalog.setval('public.quotes_id_seq', 4, true);
SELECT pg_catalog.setval('public.stops_id_seq', 1, true);
SELECT pg_catalog.setval('public.sweeps_id_seq', 2, true);
ALTER TABLE ONLY public.acceptances
    ADD CONSTRAINT acceptances_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT answers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT answers_sweep_id_request_id_key UNIQUE (sweep_id, request_id);
ALTER TABLE ONLY public.approvals
    ADD CONSTRAINT approvals_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.approvals
    ADD CONSTRAINT approvals_run_key_plan_sha256_approved_by_key UNIQUE (run_key, plan_sha256, approved_by);
ALTER TABLE ONLY public.balances
    ADD CONSTRAINT balances_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.breaks
    ADD CONSTRAINT breaks_pkey PRIMARY KEY (sweep_id, break_id);
ALTER TABLE ONLY public.card_users
    ADD CONSTRAINT card_users_pkey PRIMARY KEY (user_xid);
ALTER TABLE ONLY public.journal
    ADD CONSTRAINT journal_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_request_id_key UNIQUE (request_id);
ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_run_key_row_ref_key UNIQUE (run_key, row_ref);
ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotes
    ADD CONSTRAINT quotes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotes
    ADD CONSTRAINT quotes_request_id_key UNIQUE (request_id);
ALTER TABLE ONLY public.reports
    ADD CONSTRAINT reports_pkey PRIMARY KEY (sweep_id);
ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (run_key);
ALTER TABLE ONLY public.stops
    ADD CONSTRAINT stops_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sweep_balances
    ADD CONSTRAINT sweep_balances_pkey PRIMARY KEY (sweep_id, currency);
ALTER TABLE ONLY public.sweeps
    ADD CONSTRAINT sweeps_pkey PRIMARY KEY (id);
CREATE INDEX breaks_by_id ON public.breaks USING btree (break_id);
CREATE INDEX ix_acceptances_break_id ON public.acceptances USING btree (break_id);
CREATE INDEX ix_answers_sweep_id ON public.answers USING btree (sweep_id);
CREATE INDEX ix_approvals_plan_sha256 ON public.approvals USING btree (plan_sha256);
CREATE INDEX ix_journal_order_id ON public.journal USING btree (order_id);
CREATE INDEX ix_plans_run_key ON public.plans USING btree (run_key);
CREATE INDEX ix_quotes_order_id ON public.quotes USING btree (order_id);
CREATE INDEX ix_reports_books ON public.reports USING btree (books);
CREATE INDEX orders_by_alike ON public.orders USING btree (alike);
CREATE INDEX orders_by_state ON public.orders USING btree (state);
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT answers_sweep_id_fkey FOREIGN KEY (sweep_id) REFERENCES public.sweeps(id);
ALTER TABLE ONLY public.breaks
    ADD CONSTRAINT breaks_sweep_id_fkey FOREIGN KEY (sweep_id) REFERENCES public.sweeps(id);
ALTER TABLE ONLY public.journal
    ADD CONSTRAINT journal_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(id);
ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_run_key_fkey FOREIGN KEY (run_key) REFERENCES public.runs(run_key);
ALTER TABLE ONLY public.quotes
    ADD CONSTRAINT quotes_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(id);
ALTER TABLE ONLY public.reports
    ADD CONSTRAINT reports_sweep_id_fkey FOREIGN KEY (sweep_id) REFERENCES public.sweeps(id);
ALTER TABLE ONLY public.sweep_balances
    ADD CONSTRAINT sweep_balances_sweep_id_fkey FOREIGN KEY (sweep_id) REFERENCES public.sweeps(id);
