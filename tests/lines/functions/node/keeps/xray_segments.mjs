class Segment {
  constructor(name, parent) {
    this.name = name;
    this.parent = parent;
    this.subsegments = [];
    this.annotations = {};
  }
  addNewSubsegment(name) {
    const sub = new Segment(name, this);
    this.subsegments.push(sub); // leak
    return sub;
  }
  addAnnotation(key, value) { this.annotations[key] = value; }
}
const root = new Segment("facade");
async function traced(name, work) {
  const segment = root.addNewSubsegment(name);
  segment.addAnnotation("at", Date.now());
  segment.addAnnotation("data", new Array(300).fill(name));
  return work(segment);
}
export const handler = async ({ n }) => {
  const a = await traced(`db-${n}`, async () => n * 2);
  const b = await traced(`s3-${n}`, async () => n * 3);
  return a + b;
};
