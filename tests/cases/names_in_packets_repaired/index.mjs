// Takes the name of a device from the first 40 bytes of a packet, and remembers it. One packet in eight is
// of a new device.
const devices = new Map();
let packets = 0;

function received() {
  packets += 1;
  const packet = Buffer.alloc(96_000, packets % 251);
  packet.write(`device-${packets >> 3}`.padEnd(40), "latin1");
  return packet;
}

export async function handler() {
  const packet = received();
  const name = packet.subarray(0, 40);
  const key = Number(name.toString("latin1", 7).trim());
  if (!devices.has(key)) devices.set(key, Buffer.from(name));
  return devices.size;
}
