package rules;

public final class Discount implements Rule {
    @Override public long price(long cents) { return cents > 10_000 ? cents * 9 / 10 : cents; }
}
