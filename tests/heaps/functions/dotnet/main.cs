using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Text.Json;
using System.Threading;

/// A function in C# that allocates as it is asked to: {"do": what, "mib": how much}, with a runtime client of its own.
static class Program
{
    static readonly List<byte[]> Kept = new List<byte[]>();

    static void Handle(string text, string requestId)
    {
        var asked = JsonDocument.Parse(text).RootElement;
        var what = asked.GetProperty("do").GetString();
        var made = Enumerable.Range(0, (int)(asked.GetProperty("mib").GetDouble() * 1024)).Select(_ => new byte[1000]).ToList();
        if (what == "leak") Kept.AddRange(made);
        if (what == "empty")
            foreach (var page in Directory.GetFiles(Environment.GetEnvironmentVariable("TMPDIR"), ".truemem-heap-*")) File.Delete(page);
        made = null;
        Truemem.Note(requestId);
    }

    static void Main(string[] arguments)
    {
        if (arguments.Length > 0)
        {
            Truemem.Note(arguments[0]);
            return;
        }
        var api = $"http://{Environment.GetEnvironmentVariable("AWS_LAMBDA_RUNTIME_API")}/2018-06-01/runtime/invocation/";
        using var client = new HttpClient { Timeout = Timeout.InfiniteTimeSpan };
        while (true)
        {
            using var next = client.GetAsync(api + "next").Result;
            var id = next.Headers.GetValues("Lambda-Runtime-Aws-Request-Id").First();
            Handle(next.Content.ReadAsStringAsync().Result, id);
            client.PostAsync($"{api}{id}/response", new StringContent("{}")).Result.Dispose();
        }
    }
}
