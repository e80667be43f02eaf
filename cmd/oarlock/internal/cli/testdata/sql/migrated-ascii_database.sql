CREATE DATABASE "migrated-ascii"
