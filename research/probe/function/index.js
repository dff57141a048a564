exports.handler = async () => ({ preload: globalThis.truememProbePreload === true, version: process.version });
