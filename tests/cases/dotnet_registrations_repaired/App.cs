using System.Threading;

/// Sends a message of 16 KiB for each event. What it does when the process shall end is registered while it sends.
static class App
{
    static readonly CancellationTokenSource Ending = new CancellationTokenSource();

    public static void Handle(string request)
    {
        var message = new byte[16384];
        using var registration = Ending.Token.Register(() => message[0] = 0);
        message[request.Length] = 1;
    }
}
