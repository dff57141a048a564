import { remember, type Order } from "./store";

let count = 0;

interface Event {
  size?: number;
}

const make = (id: number, size: number): Order => ({ id, rows: new Array<number>(size).fill(id) });

export const handler = async (event: Event): Promise<number> => {
  count += 1;
  const order = make(count, event.size ?? 2000);
  remember(order);
  return order.rows.length;
};
