package rules;

public interface Rule { long price(long cents); }
