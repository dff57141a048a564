/// Reads 300 KiB for each event, and keeps the last.
static class App
{
    static byte[][] last;

    public static void Handle(string request)
    {
        var pages = new byte[100][];
        for (var page = 0; page < pages.Length; page++) pages[page] = new byte[3000];
        last = pages;
    }
}
