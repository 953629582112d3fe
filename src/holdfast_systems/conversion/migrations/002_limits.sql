-- The limits of a user are exact by a lock that needs no row.
DROP TABLE conversion_owners;
