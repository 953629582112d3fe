-- Under which ticket the last send of an effect began. Whoever loses the answer of that commit knows its own again.

ALTER TABLE holdfast_effects ADD COLUMN ticket TEXT;
