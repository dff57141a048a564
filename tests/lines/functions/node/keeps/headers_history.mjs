const history = new Array();
export const handler = async function (event) {
  const headers = new Headers({ "x-id": String(event.n), cookie: "a=".padEnd(2000, "b") });
  const entry = Object.freeze({ url: new URL(`https://example.com/${event.n}`), headers });
  history[history.length] = entry; // leak
  return { n: history.length };
};
