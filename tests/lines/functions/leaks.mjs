// A handler that keeps 40 KiB of each event. It is hot: V8 inlines it into the client that calls it.
const kept = [];

function keep() {
  kept.push(new Array(5000).fill(1)); // leak
}

export const handler = async (event) => {
  while (event.do === "fill") kept.push(Buffer.alloc(1 << 20, 1));
  keep();
  return kept.length;
};
