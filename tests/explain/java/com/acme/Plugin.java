package com.acme;

/** Is loaded again and again. */
public class Plugin {
    final byte[] state = new byte[4000];
}
