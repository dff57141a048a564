const undo = [];
const model = { text: "" };
function edit(text) {
  const previous = model.text;
  model.text = text;
  undo.push(() => { model.text = previous; }); // leak
}
export const handler = async ({ n }) => { edit(`version ${n} `.repeat(500).split("").reverse().join("")); return {}; };
