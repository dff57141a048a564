const pending = new Set();
const wait = (data) => new Promise((resolve) => { pending.add({ resolve, data }); }); // leak
export const handler = async (event) => {
  wait(new Array(3000).fill(event.n)).then(() => {});
  return {};
};
