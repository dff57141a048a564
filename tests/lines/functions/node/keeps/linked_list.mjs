let head = null;
export const handler = async (event) => {
  const data = new Array(2000).fill(event.n);
  head = { data, next: head }; // leak
  return {};
};
