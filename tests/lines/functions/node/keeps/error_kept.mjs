const errors = [];
const fail = (n) => { throw Object.assign(new Error("no " + n), { rows: new Array(2000).fill(n) }); };
export const handler = async ({ n }) => {
  try {
    fail(n);
  } catch (error) {
    errors.push(error); // leak
  }
  return {};
};
