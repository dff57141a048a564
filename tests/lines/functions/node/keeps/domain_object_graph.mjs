class Node2 { constructor(value) { this.value = value; this.children = []; this.parent = undefined; } 
  append(child) { child.parent = this; this.children.push(child); return child; } } // leak
const tree = new Node2("root");
function grow(n) {
  let at = tree;
  for (let i = 0; i < 20; i++) at = at.append(new Node2(`${n}:${i}`));
  return at;
}
export const handler = async ({ n }) => ({ leaf: grow(n).value });
