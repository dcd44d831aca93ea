-- Run once, when the database is made: Prefect has a database of its own beside the ledger's.
CREATE DATABASE prefect;
\connect prefect
CREATE EXTENSION pg_trgm;
