const slots = Array.from({ length: 50 }, (_, i) => new Array(3000).fill(i)); 
export const handler = async ({ n }) => { slots[Math.floor(Math.random() * 50)] = new Array(3000).fill(n); return {}; };
