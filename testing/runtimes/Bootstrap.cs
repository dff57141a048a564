using System;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Threading;

/// A runtime of its own: calls App.Handle for each event of the Runtime API. Each CASE_STEP invocations it tells
/// CASE_FIGURES, as measured.py does, the size of its heap, in KiB. With CASE_COLLECT the collector runs before.
static class Bootstrap
{
    static void Main()
    {
        var api = $"http://{Variable("AWS_LAMBDA_RUNTIME_API")}/2018-06-01/runtime/invocation/";
        var step = int.Parse(Variable("CASE_STEP") ?? "0");
        using var client = new HttpClient { Timeout = Timeout.InfiniteTimeSpan };
        for (var number = 1; ; number++)
        {
            using var next = client.GetAsync(api + "next").Result;
            App.Handle(next.Content.ReadAsStringAsync().Result);
            if (step > 0 && number % step == 0) Tell(Variable("CASE_COLLECT") != null);
            var id = next.Headers.GetValues("Lambda-Runtime-Aws-Request-Id").First();
            client.PostAsync($"{api}{id}/response", new StringContent("{}")).Result.Dispose();
        }
    }

    static string Variable(string name) => Environment.GetEnvironmentVariable(name);

    static void Tell(bool collects)
    {
        if (collects)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
        var used = GC.GetTotalMemory(collects) / 1024;
        File.AppendAllText(Variable("CASE_FIGURES"), $"{{\"used\": {used}}}\n");
    }
}
