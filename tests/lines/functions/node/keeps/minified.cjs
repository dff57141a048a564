"use strict";const e=[],t=new Map;function n(t){return{id:t,r:new Array(3e3).fill(t)}}exports.handler=async r=>{const o=n(r.n);return t.set("a",r.n),e.push(o),{ok:/[`"']/.test("x")}}; // leak
