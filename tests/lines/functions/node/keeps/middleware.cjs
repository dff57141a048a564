const handlers = [];
const use = (fn) => { handlers.push(fn); }; // leak
const withLog = (rows) => async (e) => rows.length + e.n;
exports.handler = async (event) => {
  const rows = Array.from({ length: 500 }, (_, i) => ({ i }));
  use(withLog(rows));
  return handlers.length;
};
