// Loaded by NODE_OPTIONS=--require before the runtime's own modules.
globalThis.truememProbePreload = true;
