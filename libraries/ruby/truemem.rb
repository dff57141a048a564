# Adds the heap of a Ruby function to truemem's line. It is one file, without gems, for Ruby 3.1 or newer: copy it beside
# your handler.
#
#   require_relative "truemem"
#
#   def handler(event:, context:)
#     ...
#   ensure
#     Truemem.note(context.aws_request_id)
#   end
#
# note takes a reading and writes it into a page that truemem's sidecar reads. The page's format is on truemem's page
# "The heap page". At the 64th call, the 128th and so on it first collects garbage (a full GC), unless TRUEMEM_SETTLE=off or
# that takes more than 2 % of the CPU time: then it is known what is kept. Outside Lambda it does nothing. Its errors do not
# reach the function.
module Truemem
  PAGE = 4096
  SLOT = 256 # bytes for each reading, by turns: truemem may look for one after later ones were written
  SHARE = 100 # malloc is asked in one part in so many of the time: it looks at all that is free, for 10 µs to some ms

  SETTLED_SHARE = 50 # of CPU time
  FIRST_SETTLED = 64

  @lock = Mutex.new
  @number = @ask_at = @freed = @spent = @cost = 0
  @settle_at = ENV["TRUEMEM_SETTLE"].to_s.strip.downcase == "off" ? Float::INFINITY : FIRST_SETTLED

  class << self
    # Notes the heap for the invocation with this request id, which is about to end.
    def note(request_id)
      return unless ENV["AWS_LAMBDA_RUNTIME_API"] && /\A[!-~]+\z/.match?(request_id)

      @lock.synchronize do
        @number += 1
        time = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
        found = settled || figures or return
        members = found.map { |name, value| " #{name}=#{value}" }.join
        text = "truemem-heap-3 #{@number} #{request_id} #{time} ruby#{members} #{@number}\n"
        opened.pwrite(text, @number * SLOT % PAGE) if text.bytesize <= SLOT
      end
      nil
    rescue StandardError
      nil
    end

    private

    # KiB; nil: malloc was asked a moment ago, or is not glibc's. Ruby's heap has slots for objects; what an object has
    # beyond its slot is malloc's.
    def figures
      given, taken = malloc
      return unless given

      stat = GC.stat
      slots = stat[:heap_allocated_pages] * GC::INTERNAL_CONSTANTS.fetch(:HEAP_PAGE_SIZE)
      heaps = GC.respond_to?(:stat_heap) ? GC.stat_heap.values : []
      if heaps.any? && heaps.all? { |heap| heap.key?(:total_freed_objects) } # since Ruby 3.3
        used = heaps.sum { |heap| heap[:slot_size] * (heap[:total_allocated_objects] - heap[:total_freed_objects]) }
      else
        used = slots * stat[:heap_live_slots] / stat[:heap_available_slots]
      end
      if stat[:major_gc_count] != @majors
        @majors = stat[:major_gc_count]
        @live = used * stat[:heap_marked_slots] / stat[:heap_live_slots] + given
      end
      { used: used + given >> 10, committed: slots + taken >> 10, live: @live >> 10, collections: @majors,
        gcMs: stat[:time] }
    end

    # The figures after a full collection, if it is time for one.
    def settled
      cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
      return if @number < @settle_at || (@spent + @cost) * SETTLED_SHARE > cpu

      began, @ask_at = now, 0
      before = figures or return
      GC.start
      @ask_at = 0
      after = figures
      @settle_at *= 2 while @settle_at <= @number
      @freed += [before[:used] - after[:used], 0].max
      @spent += @cost = now - began
      after.merge(kept: after[:used], garbage: @freed)
    end

    # Bytes that glibc's malloc has given out, and has from the system.
    def malloc
      @libc = load_libc if @libc.nil?
      began = now
      return if began < @ask_at || !@libc

      in_use.tap { @ask_at = now + SHARE * (now - began) }
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)

    # The functions that are called, or false. mallinfo2(3) returns a structure, which Fiddle cannot have on arm64.
    def load_libc
      require "fiddle"
      pointer, whole = Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT
      all = Fiddle.dlopen(nil)
      @libc = { open_memstream: [[pointer, pointer], pointer], malloc_info: [[whole, pointer], whole],
                fclose: [[pointer], whole], free: [[pointer], Fiddle::TYPE_VOID] }
              .to_h { |name, (taken, given)| [name, Fiddle::Function.new(all[name.to_s], taken, given)] }
      before, = in_use
      block = Fiddle.malloc(1 << 20)
      is_glibcs = in_use.first - before >= 1 << 20
      Fiddle.free(block)
      is_glibcs && @libc
    rescue LoadError, StandardError
      false
    end

    def in_use
      made = Fiddle::Pointer.malloc(16, Fiddle::RUBY_FREE)
      stream = @libc[:open_memstream].call(made, made + 8)
      @libc[:malloc_info].call(0, stream)
      @libc[:fclose].call(stream)
      address, bytes = made[0, 16].unpack("Q2")
      text = Fiddle::Pointer.new(address)[0, bytes].rpartition("</heap>").last # the sums of all arenas
      @libc[:free].call(address)
      system, fast, rest, mapped = ['system type="current"', *%w[fast rest mmap].map { |type| "total type=\"#{type}\"" }]
                                   .map { |begins| text[/<#{begins}[^>]* size="(\d+)"/, 1].to_i }
      [system - fast - rest + mapped, system + mapped]
    end

    # The page, made if it is not there or was removed. It follows no link, and no other user can read it.
    def opened
      return @file if @file && @file.stat.nlink.positive?

      tmp = ENV["TMPDIR"].to_s
      folder = tmp.start_with?("/tmp/") && !tmp.include?("..") ? tmp.sub(%r{/+\z}, "") : "/tmp"
      path = "#{folder}/.truemem-heap-#{Process.pid}"
      File.unlink(path) if File.symlink?(path) || File.exist?(path) # of an earlier process with this pid
      @file = File.open(path, File::WRONLY | File::CREAT | File::EXCL | File::NOFOLLOW, 0o600)
      @file.truncate(PAGE)
      @file
    end
  end
end
