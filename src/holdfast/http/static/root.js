// Where these pages are mounted. Everything they ask for lies below, whatever path the host gave them.
const ROOT = new URL("..", import.meta.url).pathname;

// An address of ours, written as if we stood at the top: at("/api/ops/jobs").
export const at = (path) => ROOT + path.slice(1);
