import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.ByteBuffer;
import java.util.Random;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.CQLSSTableWriter;

/**
 * Writes records as SSTables, one folder for each part of the ring: Fill DIR TABLE CREATE INSERT RECORDS FIELDS BYTES SKEWED
 * TOKEN…. A field has BYTES bytes. If SKEWED is set, BYTES is a maximum, and sizes follow a Zipf distribution. A record belongs
 * to the first token that is not below its own.
 */
class Fill {
    public static void main(String[] args) throws Exception {
        int fields = Integer.parseInt(args[5]), bytes = Integer.parseInt(args[6]);
        boolean skewed = Boolean.parseBoolean(args[7]);
        long[] tokens = new long[args.length - 8];
        CQLSSTableWriter[] writers = new CQLSSTableWriter[tokens.length];
        for (int part = 0; part < tokens.length; part++) {
            tokens[part] = Long.parseLong(args[8 + part]);
            File folder = new File(args[0], args[1] + part);
            folder.mkdirs();
            writers[part] = CQLSSTableWriter.builder().inDirectory(folder.getPath()).forTable(args[2]).using(args[3])
                .withBufferSizeInMiB(32).build();
        }
        Random random = new Random(42);
        double[] upTo = zipf(bytes);
        byte[] letters = new byte[bytes];
        for (long key = 0, records = Long.parseLong(args[4]); key < records; key++) {
            Object[] values = new Object[1 + fields];
            values[0] = "user" + key;
            for (int field = 1; field <= fields; field++) {
                int size = skewed ? draw(upTo, random.nextDouble()) : bytes;
                random.nextBytes(letters);
                for (int at = 0; at < size; at++) letters[at] = (byte) ('a' + (letters[at] & 15));
                values[field] = new String(letters, 0, size, StandardCharsets.US_ASCII);
            }
            ByteBuffer name = ByteBuffer.wrap(((String) values[0]).getBytes(StandardCharsets.UTF_8));
            long token = Murmur3Partitioner.instance.getToken(name).token;
            int part = 0;
            while (part < tokens.length && tokens[part] < token) part++;
            writers[part % tokens.length].addRow(values);
        }
        for (CQLSSTableWriter writer : writers) writer.close();
        // Otherwise, threads of the server's code would keep the program alive.
        System.exit(0);
    }

    /** Cumulative probabilities of sizes 1 to `most`, in proportion to size^-0.99. */
    static double[] zipf(int most) {
        double[] upTo = new double[most];
        double sum = 0;
        for (int size = 1; size <= most; size++) upTo[size - 1] = sum += Math.pow(size, -0.99);
        for (int at = 0; at < most; at++) upTo[at] /= sum;
        return upTo;
    }

    static int draw(double[] upTo, double chance) {
        int at = java.util.Arrays.binarySearch(upTo, chance);
        return Math.min(at < 0 ? -at - 1 : at, upTo.length - 1) + 1;
    }
}
