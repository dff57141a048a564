#!/usr/bin/env ruby
# A runtime in Ruby: `handler` of app.rb is called for each event.
require "json"
require "net/http"
require_relative "app"

host, port = ENV.fetch("AWS_LAMBDA_RUNTIME_API").split(":")
api = "/2018-06-01/runtime/invocation"
connection = Net::HTTP.new(host, port.to_i)
connection.read_timeout = nil # the next event may be long in coming
connection.start
loop do
  event = connection.get("#{api}/next")
  id = event["Lambda-Runtime-Aws-Request-Id"]
  connection.post("#{api}/#{id}/response", JSON.generate(handler(JSON.parse(event.body))))
end
