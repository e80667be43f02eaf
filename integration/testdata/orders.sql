CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL)
