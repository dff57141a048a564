const inflight = new Map();
const fetchUser = (id) => new Promise((resolve) => setImmediate(() => resolve({ id, roles: Array.from({ length: 200 }, (_, i) => ({ i, id })) })));
const getUser = (id) => {
  if (!inflight.has(id)) {
    inflight.set(id, fetchUser(id)); // leak
  }
  return inflight.get(id);
};
export const handler = async ({ n }) => {
  const user = await getUser(`user-${n}`);
  return { roles: user.roles.length };
};
