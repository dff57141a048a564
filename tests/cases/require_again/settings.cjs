exports.rows = new Array(2000).fill(0).map((_, number) => number / 3);
