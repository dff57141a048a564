// node transpile.js TYPESCRIPT < source: the source as JavaScript.
const { transpileModule, ModuleKind } = require(process.argv[2]);
const source = require('fs').readFileSync(0, 'utf8');
console.log(transpileModule(source, { compilerOptions: { module: ModuleKind.CommonJS } }).outputText);
