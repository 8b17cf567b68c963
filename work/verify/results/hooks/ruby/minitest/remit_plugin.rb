# frozen_string_literal: true

# A plugin of Minitest 5, which loads each minitest/*_plugin.rb that is on $LOAD_PATH. It writes
# what became of each test into $REMIT_RESULTS, whatever reporters the project has. What the
# tests start themselves writes nothing: a run of Minitest among that is a part of some test.
module Minitest
  # Remit is added to the reporter of a run, and gets what that gets.
  module Remit
    def remit_into(dir, options)
      @remit_dir = dir
      @remit_top = Dir.pwd
      @remit_tests = []
      @remit_write = File.method(:write) # before a test can put something in its place
      # Minitest's own counts, also where the project has replaced the reporter that prints them.
      @remit_counts = StatisticsReporter.new($stdout, options)
      @remit_counts.start
    end

    def record(result)
      @remit_counts.record(result)
      @remit_tests << remit_test(result)
      super
    end

    def report
      @remit_counts.report
      begin
        @remit_write.call("#{@remit_dir}/minitest-#{Process.pid}.json", remit_text)
      rescue SystemCallError
        nil # somebody has removed the directory: a file that is missing is seen
      end
      super
    end

    private

    def remit_test(result)
      of = result.respond_to?(:klass) ? result.klass : result.class.name # before Minitest 5.11
      outcome = if result.skipped? then 'skip'
                elsif result.passed? then 'pass'
                else result.error? ? 'error' : 'fail'
                end
      { 'file' => remit_file(result), 'class' => of.to_s, 'name' => result.name.to_s, 'outcome' => outcome, 'message' => remit_message(result) }
    end

    def remit_message(result)
      result.failure ? result.failure.message.to_s[0, 2000] : ''
    rescue StandardError
      '' # the message is the code's own
    end

    # remit_file is where the method of a test is written; "" where no file is known, as of a
    # test without a body, whose method Minitest::Spec makes.
    def remit_file(result)
      file, = result.respond_to?(:source_location) ? result.source_location : result.method(result.name).source_location
      return '' if file.nil? || file == 'unknown' || file.start_with?('(')

      file = File.expand_path(file, @remit_top)
      file.include?('/lib/minitest/') ? '' : file
    rescue NameError
      ''
    end

    # remit_place gives a test without a file that of its class.
    def remit_place
      files = @remit_tests.to_h { |t| [t['class'], t['file']] }
      @remit_tests.each { |t| files[t['class']] = t['file'] unless t['file'].empty? }
      @remit_tests.each { |t| t['file'] = files[t['class']] if t['file'].empty? }
    end

    # remit_text is written without a library for JSON, which the code under test may change.
    def remit_text
      remit_place
      specs = defined?(Spec) ? Runnable.runnables.select { |k| k < Spec }.map { |k| k.name.to_s } : []
      tests = @remit_tests.map do |t|
        fields = t.map { |name, value| "\"#{name}\":#{remit_quoted(value)}" }
        "{#{fields.join(',')},\"spec\":#{specs.include?(t['class'])}}"
      end
      c = @remit_counts
      warned = c.respond_to?(:warnings) ? c.warnings.to_i : 0
      "{\"version\":#{remit_quoted(VERSION)},\"tests\":[#{tests.join(",\n")}],\n" \
        "\"summary\":{\"runs\":#{c.count},\"failures\":#{c.failures},\"errors\":#{c.errors + warned},\"skips\":#{c.skips}}}\n"
    end

    def remit_quoted(text)
      plain = text.dup.force_encoding('UTF-8').scrub('?')
      '"' + plain.gsub(/["\\\u0000-\u001f]/) { |c| format('\u%04x', c.ord) } + '"'
    end
  end

  def self.plugin_remit_init(options)
    dir = ENV.delete('REMIT_RESULTS')
    return unless dir && reporter

    reporter.extend(Remit)
    reporter.remit_into(dir, options)
  end
end
