let state = { orders: [] };
const reducer = (s, action) => {
  switch (action.type) {
    case "add":
      return { ...s, orders: [...s.orders, action.order] };
    default:
      return s;
  }
};
const dispatch = (action) => { state = reducer(state, action); }; // leak
export const handler = async ({ n }) => {
  dispatch({ type: "add", order: { n, items: new Array(800).fill(n) } });
  return { count: 1 };
};
