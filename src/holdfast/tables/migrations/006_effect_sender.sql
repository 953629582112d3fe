-- oldest: 4
-- Which job sent an effect last: several jobs may share one, and their attempts have the same numbers.

ALTER TABLE holdfast_effects ADD COLUMN sender /*id*/;
