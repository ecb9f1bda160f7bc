"""The store: tables, transactions and the embedded Postgres."""
