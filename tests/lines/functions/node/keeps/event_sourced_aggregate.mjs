const aggregates = {};
function apply(state, event) {
  state.history = state.history || [];
  state.history.push(event); // leak
  state.total = (state.total || 0) + event.amount;
  return state;
}
export async function handler(input) {
  const id = "customer-1";
  aggregates[id] = apply(aggregates[id] || {}, { amount: input.n, meta: { ids: new Array(500).fill(input.n) } });
  return { total: aggregates[id].total };
}
