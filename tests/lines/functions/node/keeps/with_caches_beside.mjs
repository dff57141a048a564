const recent = new Map();
const kept = [];
function remember(key, value) {
  recent.set(key, value);
  if (recent.size > 20) recent.delete(recent.keys().next().value);
}
export const handler = async (event) => {
  remember(event.n, { rows: new Array(2000).fill(event.n) });
  const answer = { rows: new Array(500).fill(event.n), at: Date.now() };
  kept.push(answer); // leak
  return answer.rows.length;
};
