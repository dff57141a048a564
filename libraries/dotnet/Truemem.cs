// Adds the heap of a .NET function to truemem's line. It is one file, without packages, for .NET 8 or newer: copy it into
// your project. (It also compiles for older ones, and says less there.)
//
//     public async Task<Answer> Handle(Event request, ILambdaContext context)
//     {
//         try { ... }
//         finally { Truemem.Note(context.AwsRequestId); }
//     }
//
// Note takes a reading and writes it into a page that truemem's sidecar reads. The page's format is on truemem's page "The
// heap page". At the 64th call, the 128th and so on it first collects garbage (GC.Collect), unless TRUEMEM_SETTLE=off or
// that takes more than 2 % of the CPU time: then it is known what is kept. Outside Lambda it does nothing. Its errors do
// not reach the function.
#nullable disable
using System;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;

public static class Truemem
{
    const int Page = 4096;
    const int Slot = 256; // bytes for each reading, by turns: truemem may look for one after later ones were written
    const int SettledShare = 50; // of CPU time
    const int New = 0x1 | 0x40 | 0x80 | 0x80000; // O_WRONLY, O_CREAT, O_EXCL (follows no link), O_CLOEXEC

    static readonly object Lock = new object();
    static readonly bool Settles = Variable("TRUEMEM_SETTLE").Trim().ToLowerInvariant() != "off";
    static string path;
    static int file = -1;
    static long number, settleAt = 64, freed;
    static double costMs, spentMs;

    [DllImport("libc")] static extern int open(string path, int flags, int mode);
    [DllImport("libc")] static extern int close(int file);
    [DllImport("libc")] static extern int ftruncate(int file, long bytes);
    [DllImport("libc")] static extern IntPtr pwrite(int file, byte[] data, IntPtr count, long offset);

    /// <summary>Notes the heap for the invocation with this request id, which is about to end.</summary>
    public static void Note(string requestId)
    {
        if (Variable("AWS_LAMBDA_RUNTIME_API") == "" || string.IsNullOrEmpty(requestId)) return;
        if (requestId.Any(each => each <= ' ' || each > '~')) return;
        try
        {
            lock (Lock) Write(requestId);
        }
        catch (Exception)
        {
        }
    }

    static void Write(string requestId)
    {
        number++;
        var settled = Settled();
        var time = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds();
        var text = $"truemem-heap-3 {number} {requestId} {time} dotnet{Figures()}{settled} {number}\n";
        var data = Encoding.ASCII.GetBytes(text);
        if (data.Length <= Slot && Opened()) pwrite(file, data, (IntPtr)data.Length, number * Slot % Page);
    }

    static string Figures()
    {
        var used = GC.GetTotalMemory(false);
        var last = GC.GetGCMemoryInfo();
        var committed = last.HeapSizeBytes;
        var more = "";
#if NET5_0_OR_GREATER
        committed = last.TotalCommittedBytes;
        var full = GC.GetGCMemoryInfo(GCKind.FullBlocking);
        var background = GC.GetGCMemoryInfo(GCKind.Background);
        if (background.Index > full.Index) full = background;
        if (full.Index > 0) more += $" live={(full.HeapSizeBytes - full.FragmentedBytes) >> 10}";
#endif
#if NET7_0_OR_GREATER
        more += $" gcMs={(long)GC.GetTotalPauseDuration().TotalMilliseconds}";
#endif
        committed = Math.Max(used, committed); // it is as of the last collection
        return $" used={used >> 10} committed={committed >> 10} collections={GC.CollectionCount(2)}{more}";
    }

    /// What is kept after a full collection, if it is time for one.
    static string Settled()
    {
        if (!Settles || number < settleAt) return "";
        if ((spentMs + costMs) * SettledShare > Process.GetCurrentProcess().TotalProcessorTime.TotalMilliseconds) return "";
        while (settleAt <= number) settleAt *= 2;
        var taken = Stopwatch.StartNew();
        var before = GC.GetTotalMemory(false);
        GC.Collect();
        var after = GC.GetTotalMemory(false);
        freed += Math.Max(0, before - after);
        spentMs += costMs = taken.Elapsed.TotalMilliseconds;
        return $" kept={after >> 10} garbage={freed >> 10}";
    }

    /// Makes the page, if it is not there or was removed. No other user can read it.
    static bool Opened()
    {
        if (file >= 0 && File.Exists(path)) return true;
        if (file >= 0) close(file);
        var tmp = Variable("TMPDIR");
        var folder = tmp.StartsWith("/tmp/") && !tmp.Contains("..") ? tmp.TrimEnd('/') : "/tmp";
        path = $"{folder}/.truemem-heap-{Process.GetCurrentProcess().Id}";
        File.Delete(path); // of an earlier process with this pid
        file = open(path, New, 0x180); // 0600
        return file >= 0 && ftruncate(file, Page) == 0;
    }

    static string Variable(string name) => Environment.GetEnvironmentVariable(name) ?? "";
}
