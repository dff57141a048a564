"use strict";
Object.defineProperty(exports, "__esModule", { value: true });
exports.handler = void 0;
const store_1 = require("./store");
let count = 0;
const make = (id, size) => ({ id, rows: new Array(size).fill(id) });
const handler = async (event) => {
    count += 1;
    const order = make(count, event.size ?? 2000);
    (0, store_1.remember)(order);
    return order.rows.length;
};
exports.handler = handler;
//# sourceMappingURL=index.js.map