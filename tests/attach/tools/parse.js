// node parse.js TYPESCRIPT < snippet: one line for each syntax error.
const ts = require(process.argv[2]);
const source = require('fs').readFileSync(0, 'utf8');
const { diagnostics } = ts.transpileModule(source, { reportDiagnostics: true });
for (const { messageText } of diagnostics) console.log(ts.flattenDiagnosticMessageText(messageText, '\n'));
