// The same handler, as a module.
import allocates from "./allocates.cjs";

export const handler = allocates.handler;
