# A function in Ruby that allocates as it is asked to: {"do": what, "mib": how much}, with a runtime client of its own.
require "json"
require "net/http"
require_relative "truemem"

KEPT = []

def handler(event, request_id)
  made = Array.new((event["mib"] * 1024).to_i) { |n| "#{n}".ljust(1000, "x") }
  KEPT << made if event["do"] == "leak"
  Dir.glob("#{ENV["TMPDIR"]}/.truemem-heap-*") { |path| File.unlink(path) } if event["do"] == "empty"
  made = nil
  GC.start if event["do"] == "collect"
  {}
ensure
  Truemem.note(request_id)
end

host, port = ENV.fetch("AWS_LAMBDA_RUNTIME_API").split(":")
api = "/2018-06-01/runtime/invocation"
connection = Net::HTTP.new(host, port.to_i)
connection.read_timeout = nil # the next event may be long in coming
connection.start
loop do
  event = connection.get("#{api}/next")
  id = event["Lambda-Runtime-Aws-Request-Id"]
  connection.post("#{api}/#{id}/response", JSON.generate(handler(JSON.parse(event.body), id)))
end
