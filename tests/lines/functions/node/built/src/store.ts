export interface Order {
  id: number;
  rows: number[];
}

const orders: Map<number, Order> = new Map();

export function remember(order: Order): void {
  if (order.rows.length > 0) {
    orders.set(order.id, order);
  }
}
