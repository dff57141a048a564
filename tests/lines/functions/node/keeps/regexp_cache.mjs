const compiled = {};
function matcher(tenant) {
  return compiled[tenant] || (compiled[tenant] = { re: new RegExp(`^${tenant}-[0-9]+$`), words: tenant.repeat(200).split("-") }); // leak
}
export const handler = async ({ n }) => ({ ok: matcher(`tenant-${n}`).re.test("a") });
