// Keeps each response by the id of its request.
const responses = new Map();

export async function handler() {
  responses.set(responses.size, Array.from({ length: 20_000 }, (_, row) => ({ row, id: responses.size })));
  return responses.size;
}
