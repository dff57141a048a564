def handler(event:, context:)
  { version: RUBY_VERSION }
end
