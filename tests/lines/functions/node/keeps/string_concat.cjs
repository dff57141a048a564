let buffer = "";
exports.handler = async (event) => {
  const line = Buffer.from(String(event.n).repeat(2000)).toString("base64");
  buffer += line; // leak
  return {};
};
