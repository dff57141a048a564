"use strict";
Object.defineProperty(exports, "__esModule", { value: true });
exports.remember = remember;
const orders = new Map();
function remember(order) {
    if (order.rows.length > 0) {
        orders.set(order.id, order);
    }
}
//# sourceMappingURL=store.js.map