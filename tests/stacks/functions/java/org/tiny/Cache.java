package org.tiny;

import java.util.ArrayList;
import java.util.List;

/** A library. */
public class Cache {
    private final List<byte[]> kept = new ArrayList<>();

    public void keep(int size) {
        kept.add(new byte[size]);
    }
}
