package com.acme;

import java.util.List;
import java.util.function.Consumer;

/** Makes garbage for ever, by calls that follow each other quickly. */
public class Moves {
    interface Make {
        Object make(int size);
    }

    static volatile Object last;

    static Object inner(int size) {
        return new byte[size]; // inner
    }

    static Object middle(int size) {
        Make make = each -> inner(each); // lambda$middle$0
        return make.make(size); // middle
    }

    static void outer() {
        for (int each = 1; each < 5; each++) {
            last = middle(each << 20); // outer
        }
    }

    static void other() {
        Consumer<Integer> make = each -> last = new Object[each]; // lambda$other$1
        List.of(100_000, 200_000).forEach(make); // other
    }

    static void both() {
        if (last instanceof byte[]) {
            other(); // both, other
        } else {
            outer(); // both, outer
        }
    }

    public static void main(String[] arguments) {
        System.out.println("ready");
        while (true) {
            both(); // main
        }
    }
}
